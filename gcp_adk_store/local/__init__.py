"""Documents and objects in a folder of this machine, or in memory; without Google's SDKs."""
