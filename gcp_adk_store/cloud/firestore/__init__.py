"""Access to Firestore."""
