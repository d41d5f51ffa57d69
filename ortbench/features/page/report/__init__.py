"""The report as one page that opens anywhere, with its charts as SVG, by Matplotlib. What that tells when it is imported, of its font cache
and configuration folder, is no business of a benchmark's user."""

import logging

_logger = logging.getLogger("matplotlib")
_before = _logger.level
_logger.setLevel(logging.ERROR)
import matplotlib.font_manager  # noqa: E402, F401

_logger.setLevel(_before)
