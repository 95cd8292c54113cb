"""Fill templates: session state into instructions, inputs into prompts."""
