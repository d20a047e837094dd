"""embyproc: files finished downloads under the right name and makes Emby show them right."""

__version__ = "0.1.0"
