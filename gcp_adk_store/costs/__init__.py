"""Estimate the monthly cost of agents: billed operations as functions of a workload, and prices as data.

Pure: this package never asks Google. ``tests/costs/test_counts.py`` compares ``counts`` with the emulators'
meters; docs/costs.md says what the estimate omits.
"""
