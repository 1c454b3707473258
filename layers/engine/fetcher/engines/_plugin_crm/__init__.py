"""The operator's `plugin_crm`: MongoDB with a collection an organization, and fields that are stored encrypted."""
