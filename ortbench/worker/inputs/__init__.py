"""The arrays that go into a model: shapes, random values, files."""
