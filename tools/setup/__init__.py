"""Install what the commands of this clone need. It runs before ``.venv`` exists: standard library only."""
