"""The load generator: the only part of the controller that sends requests to a server.

``workload`` says what is asked, ``client`` asks and takes the times, ``records`` is what is kept of each request.
"""

from __future__ import annotations
