"""Record, read and list sessions in Firestore."""
