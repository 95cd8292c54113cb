"""Agent apps as folders of files: what they consist of, what is wrong with them, and their tests."""
