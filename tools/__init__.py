"""Tools of the maintainers: set-up, documents, releases, benchmarks."""
