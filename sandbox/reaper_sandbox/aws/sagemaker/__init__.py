"""SageMaker, as strict as the real one, for what moto lacks or gets wrong. Models, jobs, clusters and the rest stay moto's."""
