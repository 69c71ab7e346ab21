# The same as a stream.

require "openai"

openai = OpenAI::Client.new

stream = openai.completions.create_streaming(
  model: :"gpt-3.5-turbo-instruct",
  prompt: "Say this is a test",
  max_tokens: 7,
  temperature: 0
)
stream.each { |chunk| puts chunk.choices.first.text }
