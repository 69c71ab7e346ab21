"""HTTP: routes, bodies, event streams, headers. The only importer of the web framework; knows no model library."""
