"""A sparse model of heart disease from four hospitals."""
