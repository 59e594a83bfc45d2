"""Runs: from table files to a folder of plain files, and from that folder to a bundle."""
