"""From a design to a bundle: golden items, verification through the runtime, and the export."""
