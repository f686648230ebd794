"""What a vendor's pilot pod has to show before a plan's recommendation is bought."""
