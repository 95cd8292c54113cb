"""Take sessions back to points of their past."""
