"""A cascade in a service: reloading its bundle, comparing a second one."""
