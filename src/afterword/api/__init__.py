"""HTTP: routes, bodies, event streams, headers. The only importer of the web framework; knows no model library.

Begin with `app.py`, which puts it together. Every route is wrapped by `exchange.py` (what is recorded of a request),
`error_responses.py` (error bodies) and `auth.py` (API keys). `completions.py` has the main route: `intake.py` reads its
bodies, `dialect.py` has what depends on the route, `render.py` and `sse.py` write its answers.
"""
