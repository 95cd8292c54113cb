"""Access to Google Cloud: the only package that imports its SDKs."""
