"""Run the public emulators, and meter what a store does to them: for users' tests as for this project's."""
