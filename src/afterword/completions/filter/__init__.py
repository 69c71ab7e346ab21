"""The operator's content filter, applied to completions as they grow (docs/rules.md#content-filter-hits)."""
