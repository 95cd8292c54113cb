"""Read how tools are declared, and stand in for them."""
