"""Programs: functions of tensors as lists of operations, carried out again as they are, or compiled to C."""
