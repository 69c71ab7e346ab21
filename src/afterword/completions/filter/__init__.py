"""The operator's content filter: what may not leave, found in texts that grow (docs/rules.md#content-filter-hits)."""
