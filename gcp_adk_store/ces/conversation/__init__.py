"""Hold conversations with agent apps: turns of callbacks, models, tools and transfers."""
