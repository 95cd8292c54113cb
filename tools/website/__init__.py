"""Make the site of the documents and its pictures; docs/ and the code stay the sources."""
