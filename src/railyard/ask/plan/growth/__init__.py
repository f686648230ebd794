"""How a cluster grows: what stays, is bought, stranded and cabled anew on each path, and what a wrong guess costs."""
