"""Run the public emulators and count a store's requests to them, for users' tests and this project's."""
