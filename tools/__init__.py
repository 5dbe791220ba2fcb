"""Programs for those who work on the repository: the documentation site, recordings and screenshots."""
