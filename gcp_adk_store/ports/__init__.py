"""What sessions and artifacts require of a backend: documents, objects, and how they refuse a write."""
