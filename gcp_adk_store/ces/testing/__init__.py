"""Run the tests of agent apps."""
