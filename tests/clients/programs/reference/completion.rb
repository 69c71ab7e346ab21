# The API reference's request with the Ruby SDK, as it is: address and key come from the environment.

require "openai"

openai = OpenAI::Client.new

completion = openai.completions.create(
  model: :"gpt-3.5-turbo-instruct",
  prompt: "Say this is a test",
  max_tokens: 7,
  temperature: 0
)
puts completion.to_json
