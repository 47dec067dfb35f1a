# The stack of template.yaml from a release, for those who deploy with Terraform. CloudFormation still makes every resource, so that updates, the
# guard and the guide are the same. docs/deploy-aws.md describes the parameters.

terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

variable "release" {
  description = "Folder with the files of a release: template.yaml and ml-idle-reaper-lambda-VERSION.zip."
  type        = string
}

variable "bucket" {
  description = "Existing S3 bucket in the stack's region, for the template and the function's code. Only deployers should be able to write there."
  type        = string
}

variable "stack_name" {
  description = "Name of the stack."
  type        = string
  default     = "ml-idle-reaper"
}

variable "parameters" {
  description = "Parameters of the stack, by name."
  type        = map(string)
  default     = {}
}

variable "tags" {
  description = "Tags of the stack and its resources."
  type        = map(string)
  default     = {}
}

locals {
  bundle   = one(fileset(var.release, "ml-idle-reaper-lambda-*.zip"))
  source   = "${var.release}/${local.bundle}"
  template = replace(file("${var.release}/template.yaml"), "CodeUri: ${local.bundle}", "CodeUri: s3://${var.bucket}/${aws_s3_object.bundle.key}")
}

# The keys contain the content's digest, so that a new version is a new object and CloudFormation sees the change.
resource "aws_s3_object" "bundle" {
  bucket = var.bucket
  key    = "${var.stack_name}/${filesha256(local.source)}.zip"
  source = local.source
}

resource "aws_s3_object" "template" {
  bucket  = var.bucket
  key     = "${var.stack_name}/${sha256(local.template)}.yaml"
  content = local.template
}

resource "aws_cloudformation_stack" "reaper" {
  name         = var.stack_name
  template_url = "https://${data.aws_s3_bucket.code.bucket_regional_domain_name}/${aws_s3_object.template.key}"
  parameters   = var.parameters
  tags         = var.tags
  capabilities = ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"]
}

data "aws_s3_bucket" "code" {
  bucket = var.bucket
}

output "outputs" {
  description = "Outputs of the stack, by name."
  value       = aws_cloudformation_stack.reaper.outputs
}
