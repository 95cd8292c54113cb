"""Encrypt what users put into a store, in the process: around the ports of any backend."""
