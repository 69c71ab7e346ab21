"""An engine that is another server: any that speaks the completions API over HTTP."""
