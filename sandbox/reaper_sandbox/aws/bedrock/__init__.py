"""Bedrock: https://docs.aws.amazon.com/bedrock/latest/APIReference/Welcome.html"""
