"""The playground's page: HTML, styles and modules for the browser, served as they are written. Holds no Python."""
