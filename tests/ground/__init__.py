"""The ground under the tests: real servers on private ports, real processes, real text."""
