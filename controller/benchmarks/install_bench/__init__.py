"""From the archive of the collection to a service that is protected."""
