"""Salience: what to embed (operations, plans), the engine that scores, the result.

Names are imported when they are used, so that options and results need no torch."""

import lazy_loader as _lazy_loader

__getattr__, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)
