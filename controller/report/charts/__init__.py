"""Charts as data: pure functions that turn an analysis into shapes, and two back-ends that write shapes down."""
