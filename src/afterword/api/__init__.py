"""HTTP: routes, bodies, event streams, headers. The only importer of the web framework; knows no model library.

`app.py` puts it together and is the place to begin. Around every route lie `exchange.py` (what is recorded of a
request), `errors.py` (what a failure looks like) and `auth.py` (whose request it is). `completions.py` is the route
that all is there for: `intake.py` leads in, `dialect.py` says what depends on the route, `render.py` and `sse.py` lead
out.
"""
