"""Decide what is wrong with a deployment, from what Google's APIs and a few measurements say of it.

Pure: ``gcp_adk_store.doctor.examination`` asks, and the command ``gcp-adk-store doctor`` shows.
"""
