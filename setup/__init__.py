"""Install what the commands of this clone need, with the standard library alone: ``.venv`` comes later."""
