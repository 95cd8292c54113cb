"""Find what is wrong with a deployment, from Google's APIs and a few measurements.

Pure: ``gcp_adk_store.doctor.examination`` asks, and the command ``gcp-adk-store doctor`` shows.
"""
