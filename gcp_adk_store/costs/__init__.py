"""Say what agents cost a month: billed operations as functions of how agents are used, and prices as data.

Pure: nothing here asks Google. ``counts`` are held to what the emulators' meters bill by
``tests/costs/test_counts.py``; docs/costs.md says what is left out.
"""
