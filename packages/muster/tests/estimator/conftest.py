"""Lets the tests in the folders below import the helpers that lie here, such as `hooks_fakes`."""
