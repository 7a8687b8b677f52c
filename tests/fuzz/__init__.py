"""Seeds of the fuzz targets of `engine/fuzz`."""
