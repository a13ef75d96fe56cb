"""erpo_jax: adapt a code model to problems without tests, by probe consensus and one compiled ERPO update."""
