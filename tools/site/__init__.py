"""The documentation site: hooks of the site generator, and the reference pages made from the sources themselves."""
