"""The read-only web page of the service: static files and where they are mounted."""

from correlator.service.page.page import mount

__all__ = ["mount"]
