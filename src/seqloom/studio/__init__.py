"""Studio: a local web page that shows what models do.

The HTTP process does not import torch. Each run has a worker process of `seqloom.serve`, which computes the
documents of `seqloom.inspect.views`; the modules in `inspect/web` draw them.
"""
